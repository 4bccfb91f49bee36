"""Runs a submission in a child process, case by case, and collects what came of it."""
