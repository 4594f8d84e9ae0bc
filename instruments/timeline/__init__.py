"""What a trace shows of a run without a word in the script: phases, steps, figures, operators."""
