package ledger

import (
	"context"
	"errors"
	"time"

	"posthaste/internal/store"
)

// Secrets are records of nobody.
func secretScope(key string) store.Scope {
	return store.Scope{Hint: store.Hint{Records: []store.RecordKey{{Kind: store.ItemSecret, Key: []byte(key)}}}}
}

func readSecret(r store.Reader, key string) (string, error) {
	value, err := r.Get(store.ItemSecret, []byte(key))
	return string(value), err
}

// Secret implements store.Store.
func (l *Ledger) Secret(ctx context.Context, key string) (value string, err error) {
	err = l.View(ctx, secretScope(key), func(r store.Reader) (err error) {
		value, err = readSecret(r, key)
		return err
	})
	return value, err
}

// PutSecretIfAbsent implements store.Store.
func (l *Ledger) PutSecretIfAbsent(ctx context.Context, key, value string) (string, error) {
	var stored string
	err := l.Update(ctx, time.Time{}, secretScope(key), func(tx store.Tx) (err error) {
		stored, err = readSecret(tx, key)
		if errors.Is(err, store.ErrNotFound) {
			putSecret(tx, key, value)
			stored, err = value, nil
		}
		return err
	})
	if err != nil {
		return "", err
	}
	return stored, nil
}

// CompareAndSwapSecret implements store.Store.
func (l *Ledger) CompareAndSwapSecret(ctx context.Context, key, old, value string) error {
	return l.Update(ctx, time.Time{}, secretScope(key), func(tx store.Tx) error {
		stored, err := readSecret(tx, key)
		if errors.Is(err, store.ErrNotFound) || err == nil && stored != old {
			return store.ErrConflict
		}
		if err == nil {
			putSecret(tx, key, value)
		}
		return err
	})
}

func putSecret(tx store.Tx, key, value string) {
	tx.Put(store.ItemSecret, []byte(key), []byte(value), store.Found{}, store.Found{})
}
