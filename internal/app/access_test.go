package app

import (
	"context"
	"errors"
	"testing"

	"posthaste"
	"posthaste/internal/sign"
	"posthaste/internal/store"
)

// vault is one in memory that can be made to fail.
type vault struct {
	secrets map[string]string
	err     error
}

func newVault() *vault { return &vault{secrets: map[string]string{}} }

func (v *vault) Secret(_ context.Context, key string) (string, error) {
	value, found := v.secrets[key]
	switch {
	case v.err != nil:
		return "", v.err
	case !found:
		return "", store.ErrNotFound
	}
	return value, nil
}

func (v *vault) PutSecretIfAbsent(_ context.Context, key, value string) (string, error) {
	if v.err != nil {
		return "", v.err
	}
	if _, found := v.secrets[key]; !found {
		v.secrets[key] = value
	}
	return v.secrets[key], nil
}

func (v *vault) CompareAndSwapSecret(_ context.Context, key, old, value string) error {
	if v.secrets[key] != old {
		return store.ErrConflict
	}
	v.secrets[key] = value
	return nil
}

func TestOwnTokenIsMadeOnce(t *testing.T) {
	v := newVault()
	first, err := newAccess(t.Context(), v, Options{OwnToken: true})
	if err != nil {
		t.Fatal(err)
	}
	if user, readOnly, ok := first.authenticator.Authenticate(first.made.Token); !ok || readOnly || user != DefaultUser {
		t.Errorf("token is of %q, read-only %t, accepted %t", user, readOnly, ok)
	}
	second, err := newAccess(t.Context(), v, Options{OwnToken: true})
	if err != nil {
		t.Fatal(err)
	}
	if second.made.Token != "" {
		t.Error("the second start made another token")
	}
	if _, _, ok := second.authenticator.Authenticate(first.made.Token); !ok {
		t.Error("the second start does not accept the first one's token")
	}
}

func TestTokensAreAccepted(t *testing.T) {
	full := sign.Token{UserID: "ada", Password: "a"}.Encode()
	reads := sign.Token{UserID: "ada", Password: "b", ReadOnly: true}.Encode()
	v := newVault()
	a, err := newAccess(t.Context(), v, Options{Tokens: []string{full, reads}})
	if err != nil {
		t.Fatal(err)
	}
	if a.made.Token != "" || len(v.secrets) > 0 {
		t.Errorf("a token was made that nobody asked for: vault %v", v.secrets)
	}
	for token, wantReadOnly := range map[string]bool{full: false, reads: true} {
		if user, readOnly, ok := a.authenticator.Authenticate(token); !ok || user != "ada" || readOnly != wantReadOnly {
			t.Errorf("%s is of %q, read-only %t, accepted %t", token, user, readOnly, ok)
		}
	}
}

func TestSigningKeysArePreset(t *testing.T) {
	pair := sign.KeyPair{Current: "sig_0000000000000000000000000001", Next: "sig_0000000000000000000000000002"}
	a, err := newAccess(t.Context(), newVault(), Options{SigningKeys: map[string]sign.KeyPair{"ada": pair}})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := a.keyring.Keys(t.Context(), "ada"); err != nil || got != pair {
		t.Errorf("keys of ada = %v, %v; want %v", got, err, pair)
	}
	if got, err := a.keyring.Keys(t.Context(), "bob"); err != nil || got == pair {
		t.Errorf("keys of bob = %v, %v; want some of his own", got, err)
	}
}

func TestAlertKeyIsMadeOnce(t *testing.T) {
	v, alerts := newVault(), Options{Alerts: Alerts{URL: "https://ops.example.com/hook"}}
	first, err := newAccess(t.Context(), v, alerts)
	if err != nil {
		t.Fatal(err)
	}
	second, err := newAccess(t.Context(), v, alerts)
	if err != nil {
		t.Fatal(err)
	}
	made := first.made.AlertKey
	if made == "" || second.made.AlertKey != "" {
		t.Errorf("keys %q and %q were made, want one at the first start", made, second.made.AlertKey)
	}
	if got, err := second.keyring.Keys(t.Context(), posthaste.ServerUser); err != nil || got.Current != made {
		t.Errorf("alerts are signed with %v, %v; want %s", got, err, made)
	}
}

func TestAccessFails(t *testing.T) {
	broken := errors.New("broken")
	tests := map[string]struct {
		vault   *vault
		options Options
	}{
		"vault for the token":         {&vault{err: broken}, Options{OwnToken: true}},
		"vault for the signing keys":  {&vault{err: broken}, Options{SigningKeys: map[string]sign.KeyPair{"ada": {Current: "sig_0000000000000000000000000001", Next: "sig_0000000000000000000000000002"}}}},
		"malformed signing keys":      {newVault(), Options{SigningKeys: map[string]sign.KeyPair{"ada": {}}}},
		"vault for the key of alerts": {&vault{err: broken}, Options{Alerts: Alerts{URL: "https://ops.example.com/hook"}}},
		"malformed key of alerts":     {newVault(), Options{Alerts: Alerts{URL: "https://ops.example.com/hook", SigningKey: "x"}}},
		"malformed token":             {newVault(), Options{Tokens: []string{"x"}}},
		"token in the vault damaged":  {&vault{secrets: map[string]string{tokenSecret: "x"}}, Options{OwnToken: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := newAccess(t.Context(), test.vault, test.options); err == nil {
				t.Error("no error")
			}
		})
	}
}
