"""Product reviews: a data set, and one plugin of every kind that eval-toolkit takes by name."""
