"""Policies that act: collecting rollouts, and evaluation."""
