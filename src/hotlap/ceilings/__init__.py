"""What-if races: each bounds what a whole group of techniques can give. Never part of a recipe."""
