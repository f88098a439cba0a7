package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"posthaste"
	"posthaste/internal/sign"
	"posthaste/internal/store"
)

// The keys under which the vault keeps what a server made for itself.
const (
	tokenSecret    = "token"
	alertKeySecret = "alert-key"
)

// access is who may use the API and how their deliveries are signed.
type access struct {
	authenticator *sign.Authenticator
	keyring       *sign.Keyring
	made          Made
}

// Made are the secrets that were made by this very start, to be shown once; "" for what
// was there before or is not needed.
type Made struct {
	Token    string
	AlertKey string // signs alerts
}

func newAccess(ctx context.Context, vault store.Vault, options Options) (*access, error) {
	a := &access{keyring: sign.NewKeyring(sign.KeyringOptions{
		Vault: vault, Away: func(err error) bool { return errors.Is(err, store.ErrUnavailable) },
	})}
	for user, pair := range options.SigningKeys {
		if err := a.keyring.Preset(ctx, user, pair); err != nil {
			return nil, fmt.Errorf("signing keys of %q: %w", user, err)
		}
	}
	if err := a.presetAlertKey(ctx, vault, options.Alerts); err != nil {
		return nil, fmt.Errorf("signing key of alerts: %w", err)
	}
	tokens := options.Tokens
	if options.OwnToken {
		own, made, err := kept(ctx, vault, tokenSecret, newToken)
		if err != nil {
			return nil, fmt.Errorf("token of this server: %w", err)
		}
		a.made.Token = made
		tokens = append(slices.Clip(tokens), own)
	}
	var err error
	a.authenticator, err = sign.NewAuthenticator(tokens...)
	return a, err
}

// presetAlertKey gives the server's own messages their key, which is rotated by
// giving another: nobody can ask for the pair of a user that no token names.
func (a *access) presetAlertKey(ctx context.Context, vault store.Vault, alerts Alerts) (err error) {
	key := alerts.SigningKey
	switch {
	case alerts.URL == "":
		return nil
	case key == "":
		key, a.made.AlertKey, err = kept(ctx, vault, alertKeySecret, newKey)
		if err != nil {
			return err
		}
	}
	return a.keyring.Preset(ctx, posthaste.ServerUser, sign.KeyPair{Current: key, Next: key})
}

// kept returns the secret that the vault keeps under a name, and makes one at the first
// start. Of several servers that start at once on one store, all use the secret of the
// one that was first, and only for that one it is also what was made.
func kept(ctx context.Context, vault store.Vault, name string, make func() (string, error)) (secret, made string, err error) {
	secret, err = vault.Secret(ctx, name)
	if err == nil || !errors.Is(err, store.ErrNotFound) {
		return secret, "", err
	}
	fresh, err := make()
	if err != nil {
		return "", "", err
	}
	if secret, err = vault.PutSecretIfAbsent(ctx, name, fresh); err != nil {
		return "", "", err
	}
	if secret == fresh {
		made = fresh
	}
	return secret, made, nil
}

func newToken() (string, error) {
	token, err := sign.NewToken(rand.Reader, DefaultUser)
	return token.Encode(), err
}

func newKey() (string, error) { return sign.NewKey(rand.Reader) }
