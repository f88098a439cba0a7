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

// Vault keeps small secrets under short keys, each change durable when the call
// returns. It is what a Keyring needs of the store.
type Vault interface {
	// Secret returns the value kept under the key, or an error if there is none.
	Secret(ctx context.Context, key string) (string, error)

	// PutSecretIfAbsent stores the value unless there is one, and returns the one that
	// is kept then.
	PutSecretIfAbsent(ctx context.Context, key, value string) (string, error)

	// CompareAndSwapSecret stores the value if the present one is old, and returns an
	// error otherwise.
	CompareAndSwapSecret(ctx context.Context, key, old, value string) error
}

// KeyringOptions configure a Keyring.
type KeyringOptions struct {
	Vault   Vault
	Entropy io.Reader // source of new keys; nil means crypto/rand

	// Freshness is how long a pair is used without asking the vault again, and
	// so how long this process may go on signing with the old key after another
	// one rotated. 5 seconds if not given.
	Freshness time.Duration
}

const defaultFreshness = 5 * time.Second

// Keyring holds the signing keys of every user. The vault has the truth; memory
// has what was read of it lately. A Keyring may be used by many goroutines, and
// many processes may share a vault.
type Keyring struct {
	vault     Vault
	entropy   io.Reader
	freshness time.Duration

	mu     sync.Mutex
	recent map[string]recentPair // by user; guarded by mu
}

// recentPair is a pair that was in the vault at some time after readAt.
type recentPair struct {
	pair   KeyPair
	readAt time.Time
}

// record is what the vault keeps of a user: the pair in use, and the last pair
// that was preset. One value holds both, so that they change together.
type record struct {
	KeyPair
	Preset KeyPair `json:"preset,omitzero"`
}

// keptRecord is a record with the text it has in the vault.
type keptRecord struct {
	record
	text string
}

// NewKeyring returns a Keyring on the vault.
func NewKeyring(options KeyringOptions) *Keyring {
	k := &Keyring{
		vault:     options.Vault,
		entropy:   options.Entropy,
		freshness: options.Freshness,
		recent:    make(map[string]recentPair),
	}
	if k.entropy == nil {
		k.entropy = rand.Reader
	}
	if k.freshness <= 0 {
		k.freshness = defaultFreshness
	}
	return k
}

// Keys returns the user's pair, and makes one at the first call for a user.
func (k *Keyring) Keys(ctx context.Context, user string) (KeyPair, error) {
	now := time.Now()
	if pair, ok := k.recall(user, now); ok {
		return pair, nil
	}
	kept, err := k.load(ctx, user)
	if err != nil {
		return KeyPair{}, err
	}
	k.rememberRead(user, kept.KeyPair, now)
	return kept.KeyPair, nil
}

// Rotate makes the user's next key the current one, adds a fresh next key, and
// returns the new pair. It is in force when Rotate returns, in other processes
// after their freshness limit.
//
// Of two rotations at once, one fails with CodeConflict: done twice, they would
// leave receivers that hold the old pair without a key that still works.
func (k *Keyring) Rotate(ctx context.Context, user string) (KeyPair, error) {
	kept, err := k.load(ctx, user)
	if err != nil {
		return KeyPair{}, err
	}
	fresh, err := NewKey(k.entropy)
	if err != nil {
		return KeyPair{}, err
	}
	rotated := record{KeyPair: KeyPair{Current: kept.Next, Next: fresh}, Preset: kept.Preset}
	if err := k.replace(ctx, user, kept, rotated); err != nil {
		return KeyPair{}, err
	}
	return rotated.KeyPair, nil
}

// Preset sets the user's pair to a configured one, once: the vault remembers
// it, and presetting the same pair again changes nothing. So a rotation outlives
// a restart under the same configuration, which would else bring back a key that
// was rotated away, and a changed configuration takes effect at the next start.
// A malformed pair is an Error with CodeInvalid.
func (k *Keyring) Preset(ctx context.Context, user string, pair KeyPair) error {
	if err := pair.Check(); err != nil {
		return err
	}
	preset := record{KeyPair: pair, Preset: pair}
	kept, err := k.keep(ctx, user, preset)
	if err != nil || kept.Preset == pair {
		return err
	}
	return k.replace(ctx, user, kept, preset)
}

// recall returns a pair that is recent enough.
func (k *Keyring) recall(user string, now time.Time) (KeyPair, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	recent, ok := k.recent[user]
	return recent.pair, ok && now.Sub(recent.readAt) < k.freshness
}

// rememberRead notes a pair whose reading began at a time. A rotation may have
// overtaken that reading: what was noted since stays.
func (k *Keyring) rememberRead(user string, pair KeyPair, began time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if recent, ok := k.recent[user]; !ok || began.After(recent.readAt) {
		k.recent[user] = recentPair{pair, began}
	}
}

// rememberWritten notes a pair that this process has just put in the vault.
func (k *Keyring) rememberWritten(user string, pair KeyPair) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.recent[user] = recentPair{pair, time.Now()}
}

// load returns the user's record, and makes one if there is none.
func (k *Keyring) load(ctx context.Context, user string) (keptRecord, error) {
	if text, err := k.vault.Secret(ctx, secretName(user)); err == nil {
		return decodeRecord(user, text)
	}
	// The vault has no keys of this user or cannot be read: keeping tells which.
	pair, err := newKeyPair(k.entropy)
	if err != nil {
		return keptRecord{}, err
	}
	return k.keep(ctx, user, record{KeyPair: pair})
}

// keep stores a record unless the user has one, and returns the one there is.
func (k *Keyring) keep(ctx context.Context, user string, initial record) (keptRecord, error) {
	text, err := initial.encode()
	if err != nil {
		return keptRecord{}, err
	}
	kept, err := k.vault.PutSecretIfAbsent(ctx, secretName(user), text)
	if err != nil {
		return keptRecord{}, fmt.Errorf("keep the signing keys of %q: %w", user, err)
	}
	return decodeRecord(user, kept)
}

// replace puts a record in the place of the one that was read. An error of the
// vault leaves three possibilities, and only reading again tells which is true:
// nothing changed, the change was made after all, or someone else was faster.
func (k *Keyring) replace(ctx context.Context, user string, kept keptRecord, changed record) error {
	text, err := changed.encode()
	if err != nil {
		return err
	}
	if err := k.vault.CompareAndSwapSecret(ctx, secretName(user), kept.text, text); err != nil {
		present, readErr := k.vault.Secret(ctx, secretName(user))
		switch {
		case readErr != nil || present == kept.text:
			return fmt.Errorf("replace the signing keys of %q: %w", user, err)
		case present != text:
			return posthaste.Errorf(posthaste.CodeConflict,
				"the signing keys were changed by another request at the same time; read them before changing them again")
		}
	}
	k.rememberWritten(user, changed.KeyPair)
	return nil
}

func secretName(user string) string { return "signing/" + user }

func (r record) encode() (string, error) {
	text, err := json.Marshal(r)
	return string(text), err
}

func decodeRecord(user, text string) (keptRecord, error) {
	kept := keptRecord{text: text}
	if err := json.Unmarshal([]byte(text), &kept.record); err != nil {
		return keptRecord{}, fmt.Errorf("decode the signing keys of %q: %w", user, err)
	}
	if err := kept.Check(); err != nil {
		return keptRecord{}, fmt.Errorf("decode the signing keys of %q: %w", user, err)
	}
	return kept, nil
}
