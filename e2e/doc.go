// Package e2e tests the program the way its users meet it: the real binary,
// started and killed as a process, called over HTTP and by the official SDK.
//
// The package has no code of its own besides its tests. They build the program,
// or take the one that the environment variable POSTHASTE_E2E_BINARY names: make test
// has it take one with the race detector, too. The flag -backend postgres lets the servers keep
// everything in a PostgreSQL, which the tests start and stop.
package e2e
