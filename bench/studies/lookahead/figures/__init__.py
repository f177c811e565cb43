"""The figures of thesis chapter 2, one module each; modules with an underscore draw what several share."""
