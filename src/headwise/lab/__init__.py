"""A live page: move a query, turn up the noise, edit matrices, type an answer; also in notebooks and as one offline file."""

from headwise.lab.export import export
from headwise.lab.serve import serve
from headwise.lab.widget import widget

__all__ = ["export", "serve", "widget"]
