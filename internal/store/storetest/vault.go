package storetest

import "posthaste/internal/store"

var vaultPromises = []promise{
	{"a secret that was never kept is not found", func(tr *trial) {
		tr.wantErr(store.ErrNotFound, errorOf(tr.store.Secret(tr.Context(), "token")))
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
			tr.ok(errorOf(tr.store.PutSecretIfAbsent(tr.Context(), key, "of "+key)))
		}
		for _, key := range []string{"key", "key/", "keys", "Key"} {
			tr.wantSecret(key, "of "+key)
		}
	}},
	{"a present value is replaced", func(tr *trial) {
		tr.keep("token", "one")
		tr.ok(tr.store.CompareAndSwapSecret(tr.Context(), "token", "one", "two"))
		tr.wantSecret("token", "two")
	}},
	{"a value that was replaced by someone else is a conflict", func(tr *trial) {
		tr.keep("token", "one")
		tr.wantErr(store.ErrConflict, tr.store.CompareAndSwapSecret(tr.Context(), "token", "zero", "two"))
		tr.wantSecret("token", "one")
	}},
	{"a value that is not there cannot be replaced", func(tr *trial) {
		tr.wantErr(store.ErrConflict, tr.store.CompareAndSwapSecret(tr.Context(), "token", "", "two"))
		tr.wantErr(store.ErrNotFound, errorOf(tr.store.Secret(tr.Context(), "token")))
	}},
}

func (tr *trial) keep(key, value string) {
	tr.Helper()
	tr.ok(errorOf(tr.store.PutSecretIfAbsent(tr.Context(), key, value)))
}

func (tr *trial) wantSecret(key, want string) {
	tr.Helper()
	if got, err := tr.store.Secret(tr.Context(), key); err != nil || got != want {
		tr.Errorf("Secret %q = %q, %v, want %q", key, got, err, want)
	}
}
