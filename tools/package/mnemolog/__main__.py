from mnemolog import main

main()
