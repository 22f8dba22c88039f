"""`px.choose`: which combination of constants a launch takes."""
