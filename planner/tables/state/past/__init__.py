"""Tables as they were, and what names their versions: tags and branches."""
