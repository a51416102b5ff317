"""Options, arguments and questions that several commands have."""
