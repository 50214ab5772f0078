"""The application around the library: tables in and out, runs, reports, comparisons, the studio, the command line."""
