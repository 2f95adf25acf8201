"""`python -m fanfold` is the command `fanfold`."""

from fanfold.cli import main

if __name__ == '__main__':
    main()
