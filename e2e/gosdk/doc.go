// Package gosdk tests a running server through the unmodified Go module
// github.com/upstash/qstash-go, method by method. It is a module of its own, so
// that the product does not depend on the SDK.
//
// The tests need a server whose data is theirs alone: some of them cancel or
// delete everything their user has. QSTASH_URL says where it is, QSTASH_TOKEN
// whose they are; TestGoSDK of the package e2e starts one and runs them.
package gosdk
