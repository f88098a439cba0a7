package api

// getKeys shows the caller's signing keys; sign.KeyPair has the form of the
// answer (contract, messages 2.12).
func (a *api) getKeys(r *request) (answer, error) {
	pair, err := a.options.Keyring.Keys(r.Context(), r.user)
	return ok(pair), err
}

// rotateKeys makes the next key the current one and shows the new pair.
func (a *api) rotateKeys(r *request) (answer, error) {
	pair, err := a.options.Keyring.Rotate(r.Context(), r.user)
	return ok(pair), err
}
