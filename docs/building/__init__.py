"""How the site is made: pages of the repository, of the code and of the measurements, pictures, and checks of links."""
