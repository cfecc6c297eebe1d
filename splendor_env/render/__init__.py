"""The board for people: as plain text and as an image, showing only what the viewer has seen."""
