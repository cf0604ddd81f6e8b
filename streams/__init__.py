"""What moves: reading pages, sketching, the operators, the engines that run them, and the questions asked of them."""
