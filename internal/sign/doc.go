// Package sign owns who is who: the signature of each delivered request, the
// signing keys behind it and their rotation, and the tokens by which users of
// the API identify themselves.
//
// A Signer makes signatures and a Verifier explains them. A Keyring keeps every
// user's pair of keys in a vault that outlives the process. An Authenticator
// knows the accepted tokens. Randomness is passed in; nothing here logs or
// returns a secret inside an error.
package sign
