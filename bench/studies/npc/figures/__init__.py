"""The figures of the NPC study, one module each; `_parts` has what several share."""
