"""Parts of the site that no extension makes: error texts, tables of measurements, pictures and formulas."""
