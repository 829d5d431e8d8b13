"""The words of hotlap: techniques, moves, recipes, the machine. Imports neither torch nor the tool."""
