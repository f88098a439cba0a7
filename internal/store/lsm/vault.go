package lsm

import (
	"context"
	"errors"

	"posthaste/internal/store"
)

func vaultKey(key string) []byte { return append([]byte{kindVault}, key...) }

// Secret implements store.Vault.
func (s *Store) Secret(_ context.Context, key string) (_ string, err error) {
	done, err := s.reading()
	if err != nil {
		return "", err
	}
	defer done(&err)
	return s.secret(key)
}

func (s *Store) secret(key string) (value string, err error) {
	err = get(s.db, vaultKey(key), func(data []byte) error {
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
		present, exists := c.secrets[key]
		if !exists {
			stored, err := s.secret(key)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			present, exists = stored, err == nil
		}
		if err := check(present, exists); err != nil {
			return err
		}
		c.secrets[key] = value
		c.set(vaultKey(key), []byte(value))
		return nil
	})
}
