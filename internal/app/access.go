package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"posthaste/internal/sign"
	"posthaste/internal/store"
)

// tokenSecret is the key under which the vault keeps the token a server made for
// itself.
const tokenSecret = "token"

// access is who may use the API and how their deliveries are signed.
type access struct {
	authenticator *sign.Authenticator
	keyring       *sign.Keyring
	newToken      string // made by this very start; "" otherwise
}

func newAccess(ctx context.Context, vault store.Vault, options Options) (*access, error) {
	a := &access{keyring: sign.NewKeyring(sign.KeyringOptions{Vault: vault})}
	for user, pair := range options.SigningKeys {
		if err := a.keyring.Preset(ctx, user, pair); err != nil {
			return nil, fmt.Errorf("signing keys of %q: %w", user, err)
		}
	}
	tokens := options.Tokens
	if options.OwnToken {
		own, err := a.ownToken(ctx, vault)
		if err != nil {
			return nil, fmt.Errorf("token of this server: %w", err)
		}
		tokens = append(slices.Clip(tokens), own)
	}
	var err error
	a.authenticator, err = sign.NewAuthenticator(tokens...)
	return a, err
}

// ownToken returns the token that the vault keeps, and makes one at the first
// start. Of several servers that start at once on one store, all use the token
// of the one that was first, and only that one shows it.
func (a *access) ownToken(ctx context.Context, vault store.Vault) (string, error) {
	kept, err := vault.Secret(ctx, tokenSecret)
	if err == nil || !errors.Is(err, store.ErrNotFound) {
		return kept, err
	}
	token, err := sign.NewToken(rand.Reader, DefaultUser)
	if err != nil {
		return "", err
	}
	made := token.Encode()
	if kept, err = vault.KeepSecret(ctx, tokenSecret, made); err != nil {
		return "", err
	}
	if kept == made {
		a.newToken = made
	}
	return kept, nil
}
