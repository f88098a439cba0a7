package lsm

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"posthaste/internal/store"
)

// vaultKey makes the key of a secret, which belongs to no user.
func vaultKey(key string) []byte { return append(appendUser([]byte{kindVault}, ""), key...) }

// Secret implements store.Vault.
func (s *Store) Secret(_ context.Context, key string) (_ string, err error) {
	done, err := s.reading()
	if err != nil {
		return "", err
	}
	defer done(&err)
	return secret(s.db, key)
}

func secret(r pebble.Reader, key string) (value string, err error) {
	err = get(r, vaultKey(key), func(data []byte) error {
		value = string(data)
		return nil
	})
	return value, err
}

// PutSecretIfAbsent implements store.Vault.
func (s *Store) PutSecretIfAbsent(ctx context.Context, key, value string) (kept string, err error) {
	err = s.replaceSecret(ctx, key, value, func(present string, exists bool) error {
		if kept = present; exists {
			return store.ErrConflict
		}
		return nil
	})
	if errors.Is(err, store.ErrConflict) {
		return kept, nil
	}
	return value, err
}

// CompareAndSwapSecret implements store.Vault.
func (s *Store) CompareAndSwapSecret(ctx context.Context, key, old, value string) error {
	return s.replaceSecret(ctx, key, value, func(present string, exists bool) error {
		if !exists || present != old {
			return store.ErrConflict
		}
		return nil
	})
}

// replaceSecret sets a secret if check agrees to replace the present one.
func (s *Store) replaceSecret(ctx context.Context, key, value string, check func(present string, exists bool) error) error {
	return s.writer.do(ctx, func(c *commit) error {
		present, err := secret(c.records(), key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err := check(present, err == nil); err != nil {
			return err
		}
		c.setRecord(vaultKey(key), []byte(value))
		return nil
	})
}
