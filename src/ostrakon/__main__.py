"""`python -m ostrakon`: the command line, where its script is not on the path."""

from ostrakon.cli import main

if __name__ == "__main__":
    main()
