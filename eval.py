"""The platform's evaluator contract: `python eval.py MODE CASEFILE`, results on the descriptor in POPCORN_FD."""

import sys

from harness.evaluation.popcorn import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
