package storetest

import (
	"errors"

	"posthaste/internal/store"
)

var vaultPromises = []promise{
	{"a secret that was never kept is not found", func(tr *trial) {
		if _, err := tr.store.Secret(tr.Context(), "token"); !errors.Is(err, store.ErrNotFound) {
			tr.Errorf("Secret = %v, want ErrNotFound", err)
		}
	}},
	{"the first value is kept", func(tr *trial) {
		for _, value := range []string{"one", "two"} {
			kept, err := tr.store.PutSecretIfAbsent(tr.Context(), "token", value)
			if err != nil || kept != "one" {
				tr.Errorf("PutSecretIfAbsent %q = %q, %v, want the first value", value, kept, err)
			}
		}
		tr.wantSecret("token", "one")
	}},
	{"keys do not disturb each other", func(tr *trial) {
		for _, key := range []string{"key", "key/", "keys", "Key"} {
			if _, err := tr.store.PutSecretIfAbsent(tr.Context(), key, "of "+key); err != nil {
				tr.Fatal(err)
			}
		}
		for _, key := range []string{"key", "key/", "keys", "Key"} {
			tr.wantSecret(key, "of "+key)
		}
	}},
	{"a present value is replaced", func(tr *trial) {
		tr.keep("token", "one")
		if err := tr.store.CompareAndSwapSecret(tr.Context(), "token", "one", "two"); err != nil {
			tr.Fatal(err)
		}
		tr.wantSecret("token", "two")
	}},
	{"a value that was replaced by someone else is a conflict", func(tr *trial) {
		tr.keep("token", "one")
		if err := tr.store.CompareAndSwapSecret(tr.Context(), "token", "zero", "two"); !errors.Is(err, store.ErrConflict) {
			tr.Errorf("CompareAndSwapSecret = %v, want ErrConflict", err)
		}
		tr.wantSecret("token", "one")
	}},
	{"a value that is not there cannot be replaced", func(tr *trial) {
		if err := tr.store.CompareAndSwapSecret(tr.Context(), "token", "", "two"); !errors.Is(err, store.ErrConflict) {
			tr.Errorf("CompareAndSwapSecret = %v, want ErrConflict", err)
		}
		if _, err := tr.store.Secret(tr.Context(), "token"); !errors.Is(err, store.ErrNotFound) {
			tr.Errorf("Secret afterwards = %v, want ErrNotFound", err)
		}
	}},
}

func (tr *trial) keep(key, value string) {
	tr.Helper()
	if _, err := tr.store.PutSecretIfAbsent(tr.Context(), key, value); err != nil {
		tr.Fatal(err)
	}
}

func (tr *trial) wantSecret(key, want string) {
	tr.Helper()
	if got, err := tr.store.Secret(tr.Context(), key); err != nil || got != want {
		tr.Errorf("Secret %q = %q, %v, want %q", key, got, err, want)
	}
}
