package sign

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"posthaste"
)

// Vault is the part of the store that a Keyring needs. Changes are durable on return.
type Vault interface {
	// Secret returns a value, or an error if there is none.
	Secret(ctx context.Context, key string) (string, error)

	// PutSecretIfAbsent stores the value if there is none, and returns the stored one.
	PutSecretIfAbsent(ctx context.Context, key, value string) (string, error)

	// CompareAndSwapSecret replaces old by value, or returns an error if the stored value is not
	// old.
	CompareAndSwapSecret(ctx context.Context, key, old, value string) error
}

// KeyringOptions configure a Keyring.
type KeyringOptions struct {
	Vault   Vault
	Entropy io.Reader // default crypto/rand

	// Freshness is how long a pair is cached, and so how long this process may sign with an old
	// key after another process rotated it. Default 5 s.
	Freshness time.Duration

	// Away reports whether an error of the vault says that it cannot be reached. May be nil.
	Away func(error) bool
}

const defaultFreshness = 5 * time.Second

// Keyring has the signing keys of all users: in a vault, which processes may share, and in a
// cache. Safe for concurrent use.
type Keyring struct {
	vault     Vault
	entropy   io.Reader
	freshness time.Duration
	away      func(error) bool

	mu     sync.Mutex
	recent map[string]recentPair // by user
}

// recentPair is a cached pair, read from the vault at or after readAt.
type recentPair struct {
	pair   KeyPair
	readAt time.Time
}

// record is stored in the vault: the pair in use and the last preset. One value, so that both
// change together.
type record struct {
	KeyPair
	Preset KeyPair `json:"preset,omitzero"`
}

// storedRecord is a record with its stored text.
type storedRecord struct {
	record
	text string
}

// NewKeyring returns a Keyring on the vault.
func NewKeyring(options KeyringOptions) *Keyring {
	k := &Keyring{
		vault:     options.Vault,
		entropy:   options.Entropy,
		freshness: options.Freshness,
		away:      options.Away,
		recent:    make(map[string]recentPair),
	}
	if k.entropy == nil {
		k.entropy = rand.Reader
	}
	if k.away == nil {
		k.away = func(error) bool { return false }
	}
	if k.freshness <= 0 {
		k.freshness = defaultFreshness
	}
	return k
}

// Keys returns the user's pair, creating it if needed. While the vault is away, it is the last one that was read.
func (k *Keyring) Keys(ctx context.Context, user string) (KeyPair, error) {
	now := time.Now()
	if pair, ok := k.cached(user, now); ok {
		return pair, nil
	}
	stored, err := k.load(ctx, user)
	if err != nil {
		if pair, ok := k.lastRead(user); ok && k.away(err) {
			return pair, nil
		}
		return KeyPair{}, err
	}
	k.cacheRead(user, stored.KeyPair, now)
	return stored.KeyPair, nil
}

// Rotate replaces the current key by the next one and that by a new one, and returns the new
// pair. Other processes use it after their Freshness.
//
// If two rotations run at once, one fails with CodeConflict: rotating twice would leave receivers
// with the old pair without a valid key.
func (k *Keyring) Rotate(ctx context.Context, user string) (KeyPair, error) {
	stored, err := k.load(ctx, user)
	if err != nil {
		return KeyPair{}, err
	}
	fresh, err := NewKey(k.entropy)
	if err != nil {
		return KeyPair{}, err
	}
	rotated := record{KeyPair: KeyPair{Current: stored.Next, Next: fresh}, Preset: stored.Preset}
	if err := k.replace(ctx, user, stored, rotated); err != nil {
		return KeyPair{}, err
	}
	return rotated.KeyPair, nil
}

// Preset sets the user's pair to a configured one, once: the vault records it, so restarts with
// the same configuration do not undo a rotation, and a changed configuration applies at the next
// start. An invalid pair is an Error with CodeInvalid.
func (k *Keyring) Preset(ctx context.Context, user string, pair KeyPair) error {
	if err := pair.Check(); err != nil {
		return err
	}
	preset := record{KeyPair: pair, Preset: pair}
	stored, err := k.putIfAbsent(ctx, user, preset)
	if err != nil || stored.Preset == pair {
		return err
	}
	return k.replace(ctx, user, stored, preset)
}

// cached returns a cached pair that is fresh.
func (k *Keyring) cached(user string, now time.Time) (KeyPair, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	recent, ok := k.recent[user]
	return recent.pair, ok && now.Sub(recent.readAt) < k.freshness
}

// lastRead returns the pair that was read last.
func (k *Keyring) lastRead(user string) (KeyPair, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	recent, ok := k.recent[user]
	return recent.pair, ok
}

// cacheRead caches a pair read from began on, unless a newer one is cached.
func (k *Keyring) cacheRead(user string, pair KeyPair, began time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if recent, ok := k.recent[user]; !ok || began.After(recent.readAt) {
		k.recent[user] = recentPair{pair, began}
	}
}

// cacheWritten caches a pair just written.
func (k *Keyring) cacheWritten(user string, pair KeyPair) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.recent[user] = recentPair{pair, time.Now()}
}

// load returns the user's record, creating it if needed.
func (k *Keyring) load(ctx context.Context, user string) (storedRecord, error) {
	if text, err := k.vault.Secret(ctx, secretName(user)); err == nil {
		return decodeRecord(user, text)
	}
	// no keys, or an error of the vault, which putIfAbsent returns
	pair, err := newKeyPair(k.entropy)
	if err != nil {
		return storedRecord{}, err
	}
	return k.putIfAbsent(ctx, user, record{KeyPair: pair})
}

// putIfAbsent stores a record if there is none, and returns the stored one.
func (k *Keyring) putIfAbsent(ctx context.Context, user string, initial record) (storedRecord, error) {
	text, err := initial.encode()
	if err != nil {
		return storedRecord{}, err
	}
	stored, err := k.vault.PutSecretIfAbsent(ctx, secretName(user), text)
	if err != nil {
		return storedRecord{}, fmt.Errorf("putIfAbsent the signing keys of %q: %w", user, err)
	}
	return decodeRecord(user, stored)
}

// replace replaces a record. After an error the change may have happened, or another request's;
// only reading again shows which.
func (k *Keyring) replace(ctx context.Context, user string, stored storedRecord, changed record) error {
	text, err := changed.encode()
	if err != nil {
		return err
	}
	if err := k.vault.CompareAndSwapSecret(ctx, secretName(user), stored.text, text); err != nil {
		present, readErr := k.vault.Secret(ctx, secretName(user))
		switch {
		case readErr != nil || present == stored.text:
			return fmt.Errorf("replace the signing keys of %q: %w", user, err)
		case present != text:
			return posthaste.Errorf(posthaste.CodeConflict,
				"the signing keys were changed by another request at the same time; read them before changing them again")
		}
	}
	k.cacheWritten(user, changed.KeyPair)
	return nil
}

func secretName(user string) string { return "signing/" + user }

func (r record) encode() (string, error) {
	text, err := json.Marshal(r)
	return string(text), err
}

func decodeRecord(user, text string) (storedRecord, error) {
	stored := storedRecord{text: text}
	if err := json.Unmarshal([]byte(text), &stored.record); err != nil {
		return storedRecord{}, fmt.Errorf("decode the signing keys of %q: %w", user, err)
	}
	if err := stored.Check(); err != nil {
		return storedRecord{}, fmt.Errorf("decode the signing keys of %q: %w", user, err)
	}
	return stored, nil
}
