// Command posthaste is the Posthaste message delivery service: the development
// server, the server, and the tools around them. See internal/cli.
package main

import (
	"os"

	"posthaste/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
