"""Product reviews: a data set with one plugin of every kind supported by eval-toolkit."""
