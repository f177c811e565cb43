"""The figures of thesis chapter 3, one module each; modules with an underscore draw what several share."""
