"""`python -m phalanx` is the command `phalanx`, for where scripts are not on the path."""

from phalanx.tools.cli import main

if __name__ == "__main__":
    main()
