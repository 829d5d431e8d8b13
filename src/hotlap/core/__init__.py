"""The words of hotlap: techniques, moves, recipes, the machine; no torch, no tool."""
