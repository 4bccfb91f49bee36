"""`python -m harness` is the console command `harness`."""

from harness.cli.main import main

if __name__ == "__main__":
    main()
