"""Learning: images, views of them, recipes, training, probabilities."""
