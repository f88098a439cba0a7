package sign_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"posthaste"
	"posthaste/internal/sign"
)

const otherKey = "sig_6jWGaWRxHsw4vMSPJprXadyvrybF"

var errVault = errors.New("vault is on fire")

// memoryVault is a Vault that can fail. The hooks run before or after an
// operation is done, and fail it with their error; they may call the vault.
type memoryVault struct {
	mu     sync.Mutex
	values map[string]string
	reads  int

	onSecret, onKeep, onReplace func() error
	afterSecret, afterReplace   func() error
}

func newMemoryVault() *memoryVault { return &memoryVault{values: map[string]string{}} }

func (v *memoryVault) Secret(_ context.Context, key string) (string, error) {
	if err := run(v.onSecret); err != nil {
		return "", err
	}
	v.mu.Lock()
	value, ok := v.values[key]
	v.reads++
	v.mu.Unlock()
	if !ok {
		return "", errors.New("no such secret")
	}
	return value, run(v.afterSecret)
}

func (v *memoryVault) PutSecretIfAbsent(_ context.Context, key, value string) (string, error) {
	if err := run(v.onKeep); err != nil {
		return "", err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if present, ok := v.values[key]; ok {
		return present, nil
	}
	v.values[key] = value
	return value, nil
}

func (v *memoryVault) CompareAndSwapSecret(_ context.Context, key, old, value string) error {
	if err := run(v.onReplace); err != nil {
		return err
	}
	if !v.swap(key, old, value) {
		return errors.New("changed by someone else")
	}
	return run(v.afterReplace)
}

func (v *memoryVault) swap(key, old, value string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.values[key] != old {
		return false
	}
	v.values[key] = value
	return true
}

func run(hook func() error) error {
	if hook == nil {
		return nil
	}
	return hook()
}

func newKeyring(vault sign.Vault) *sign.Keyring {
	return sign.NewKeyring(sign.KeyringOptions{Vault: vault, Freshness: time.Minute})
}

func TestKeysAreMadeOnceAndKept(t *testing.T) {
	vault := newMemoryVault()
	first := keysOf(t, newKeyring(vault), "me")
	form := regexp.MustCompile(`^sig_[0-9A-Za-z]{28}$`)
	if !form.MatchString(first.Current) || !form.MatchString(first.Next) || first.Current == first.Next {
		t.Errorf("pair %+v", first)
	}
	if again := keysOf(t, newKeyring(vault), "me"); again != first {
		t.Errorf("after a restart the pair is %+v, want %+v", again, first)
	}
	if other := keysOf(t, newKeyring(vault), "you"); other.Current == first.Current || other.Next == first.Next {
		t.Error("two users have the same keys")
	}
}

func TestKeysComeFromTheEntropy(t *testing.T) {
	const seed = "an entropy source of thirty-two!"
	made := func() sign.KeyPair {
		entropy := rand.NewChaCha8([32]byte([]byte(seed)))
		return keysOf(t, sign.NewKeyring(sign.KeyringOptions{Vault: newMemoryVault(), Entropy: entropy}), "me")
	}
	if first, second := made(), made(); first != second {
		t.Errorf("one seed gives %+v and %+v", first, second)
	}
}

// Contract, messages 2.12.
func TestRotate(t *testing.T) {
	vault := newMemoryVault()
	keyring := newKeyring(vault)
	before, other := keysOf(t, keyring, "me"), keysOf(t, keyring, "you")
	after, err := keyring.Rotate(t.Context(), "me")
	if err != nil {
		t.Fatal(err)
	}
	if after.Current != before.Next || after.Next == before.Current || after.Next == before.Next {
		t.Errorf("%+v was rotated to %+v", before, after)
	}
	if now := keysOf(t, keyring, "me"); now != after {
		t.Errorf("pair in use %+v, want %+v", now, after)
	}
	if stored := keysOf(t, newKeyring(vault), "me"); stored != after {
		t.Errorf("pair stored %+v, want %+v", stored, after)
	}
	if now := keysOf(t, keyring, "you"); now != other {
		t.Errorf("the other user's pair became %+v", now)
	}
}

func TestRotateUserWithoutKeys(t *testing.T) {
	keyring := newKeyring(newMemoryVault())
	rotated, err := keyring.Rotate(t.Context(), "me")
	if err != nil || rotated.Check() != nil {
		t.Fatalf("Rotate = %+v, %v", rotated, err)
	}
	if now := keysOf(t, keyring, "me"); now != rotated {
		t.Errorf("pair in use %+v, want %+v", now, rotated)
	}
}

func TestRotationReachesOtherProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vault := newMemoryVault()
		here, there := newKeyring(vault), newKeyring(vault)
		before := keysOf(t, there, "me")
		after, err := here.Rotate(t.Context(), "me")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute - time.Nanosecond)
		if now := keysOf(t, there, "me"); now != before {
			t.Errorf("within the limit the other process uses %+v, want %+v", now, before)
		}
		time.Sleep(time.Nanosecond)
		if now := keysOf(t, there, "me"); now != after {
			t.Errorf("at the limit the other process uses %+v, want %+v", now, after)
		}
	})
}

func TestKeysReadTheVaultOncePerLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vault := newMemoryVault()
		keyring := sign.NewKeyring(sign.KeyringOptions{Vault: vault})
		for range 10 {
			keysOf(t, keyring, "me")
		}
		if vault.reads != 1 {
			t.Errorf("%d reads for 10 calls", vault.reads)
		}
		time.Sleep(5 * time.Second)
		keysOf(t, keyring, "me")
		if vault.reads != 2 {
			t.Errorf("%d reads after 5 seconds, want 2", vault.reads)
		}
	})
}

// TestRotationOvertakesReading rotates, within one moment, while a reading is
// under way that has already seen the old pair.
func TestRotationOvertakesReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vault := newMemoryVault()
		before := keysOf(t, newKeyring(vault), "me")
		keyring := newKeyring(vault)
		var after sign.KeyPair
		vault.afterSecret = func() (err error) {
			vault.afterSecret = nil
			after, err = keyring.Rotate(t.Context(), "me")
			return err
		}
		if pair := keysOf(t, keyring, "me"); pair != before {
			t.Errorf("the overtaken reading gave %+v, want %+v", pair, before)
		}
		if pair := keysOf(t, keyring, "me"); pair != after {
			t.Errorf("the next one gave %+v, want %+v", pair, after)
		}
	})
}

func TestRotateLosesRace(t *testing.T) {
	vault := newMemoryVault()
	keyring, rival := newKeyring(vault), newKeyring(vault)
	before := keysOf(t, keyring, "me")
	var won sign.KeyPair
	vault.onReplace = func() (err error) {
		vault.onReplace = nil
		won, err = rival.Rotate(t.Context(), "me")
		return err
	}
	if pair, err := keyring.Rotate(t.Context(), "me"); posthaste.ErrorCode(err) != posthaste.CodeConflict {
		t.Errorf("Rotate = %+v, %v; want CodeConflict", pair, err)
	}
	if stored := keysOf(t, newKeyring(vault), "me"); stored != won || stored.Current != before.Next {
		t.Errorf("pair stored %+v, want the winner's %+v", stored, won)
	}
}

func TestRotateFindsItsChangeMade(t *testing.T) {
	vault := newMemoryVault()
	keyring := newKeyring(vault)
	before := keysOf(t, keyring, "me")
	vault.afterReplace = func() error { return errVault }
	after, err := keyring.Rotate(t.Context(), "me")
	if err != nil || after.Current != before.Next {
		t.Fatalf("Rotate = %+v, %v", after, err)
	}
	if now := keysOf(t, keyring, "me"); now != after {
		t.Errorf("pair in use %+v, want %+v", now, after)
	}
}

func TestVaultFailures(t *testing.T) {
	fail := func() error { return errVault }
	tests := []struct {
		name   string
		damage func(*memoryVault)
		call   step
	}{
		{"keys cannot be stored", func(v *memoryVault) { v.onKeep = fail }, callKeys},
		{"rotate: keys cannot be stored", func(v *memoryVault) { v.onKeep = fail }, callRotate},
		{"rotate: nothing is replaced", func(v *memoryVault) { v.onReplace = fail }, callRotate},
		{"rotate: the result is unknown", func(v *memoryVault) {
			v.onReplace = func() error { v.onSecret = fail; return errVault }
		}, callRotate},
		{"preset: keys cannot be stored", func(v *memoryVault) { v.onKeep = fail }, callPreset},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			vault := newMemoryVault()
			test.damage(vault)
			if err := test.call(t.Context(), newKeyring(vault)); !errors.Is(err, errVault) {
				t.Errorf("error %v, want that of the vault", err)
			}
		})
	}
}

func TestKeysSurviveUnreadableSecret(t *testing.T) {
	vault := newMemoryVault()
	want := keysOf(t, newKeyring(vault), "me")
	vault.onSecret = func() error { return errVault }
	if got := keysOf(t, newKeyring(vault), "me"); got != want {
		t.Errorf("pair %+v, want the stored %+v", got, want)
	}
}

func TestPreset(t *testing.T) {
	other := sign.KeyPair{Current: otherKey, Next: currentKey}
	preset := func(pair sign.KeyPair) step {
		return func(ctx context.Context, k *sign.Keyring) error { return k.Preset(ctx, "me", pair) }
	}
	tests := []struct {
		name    string
		steps   []step // each in a process of its own
		current string
	}{
		{"first start", []step{preset(somePair)}, currentKey},
		{"restart", []step{preset(somePair), preset(somePair)}, currentKey},
		{"rotation outlives a restart", []step{preset(somePair), callRotate, preset(somePair)}, nextKey},
		{"changed configuration", []step{preset(somePair), preset(other)}, otherKey},
		{"changed configuration after a rotation", []step{preset(somePair), callRotate, preset(other)}, otherKey},
		{"configured after keys were made", []step{callKeys, preset(somePair)}, currentKey},
		{"configured back", []step{preset(somePair), preset(other), preset(somePair)}, currentKey},
		{"configuration removed", []step{preset(somePair), callKeys}, currentKey},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			vault := newMemoryVault()
			for i, step := range test.steps {
				if err := step(t.Context(), newKeyring(vault)); err != nil {
					t.Fatalf("step %d: %v", i+1, err)
				}
			}
			if pair := keysOf(t, newKeyring(vault), "me"); pair.Current != test.current {
				t.Errorf("pair %+v, want current %s", pair, test.current)
			}
		})
	}
}

func TestPresetIsInForceAtOnce(t *testing.T) {
	keyring := newKeyring(newMemoryVault())
	keysOf(t, keyring, "me")
	if err := keyring.Preset(t.Context(), "me", somePair); err != nil {
		t.Fatal(err)
	}
	if pair := keysOf(t, keyring, "me"); pair != somePair {
		t.Errorf("pair in use %+v, want %+v", pair, somePair)
	}
}

func TestPresetByTwoProcessesAtOnce(t *testing.T) {
	vault := newMemoryVault()
	keysOf(t, newKeyring(vault), "me")
	vault.onReplace = func() error {
		vault.onReplace = nil
		return newKeyring(vault).Preset(t.Context(), "me", somePair)
	}
	if err := newKeyring(vault).Preset(t.Context(), "me", somePair); err != nil {
		t.Fatal(err)
	}
	if pair := keysOf(t, newKeyring(vault), "me"); pair != somePair {
		t.Errorf("pair %+v, want %+v", pair, somePair)
	}
}

func TestPresetRefusesMalformedKeys(t *testing.T) {
	vault := newMemoryVault()
	err := newKeyring(vault).Preset(t.Context(), "me", sign.KeyPair{Current: "hunter2", Next: nextKey})
	if posthaste.ErrorCode(err) != posthaste.CodeInvalid {
		t.Errorf("error %v has not CodeInvalid", err)
	}
	if len(vault.values) != 0 {
		t.Errorf("the vault holds %v", vault.values)
	}
}

func TestDamagedRecords(t *testing.T) {
	for _, text := range []string{"", "{", `{}`, `{"current":"sig_1","next":"sig_2"}`, `[]`} {
		vault := newMemoryVault()
		vault.values["signing/me"] = text
		if pair, err := newKeyring(vault).Keys(t.Context(), "me"); err == nil {
			t.Errorf("Keys of the record %q = %+v", text, pair)
		}
	}
}

func FuzzKeysOfRecord(f *testing.F) {
	f.Add(`{"current":"` + currentKey + `","next":"` + nextKey + `"}`)
	f.Add(`{"current":null,"preset":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		vault := newMemoryVault()
		vault.values["signing/me"] = text
		pair, err := newKeyring(vault).Keys(t.Context(), "me")
		if err == nil && pair.Check() != nil {
			t.Errorf("Keys of the record %q = %+v", text, pair)
		}
	})
}

// While the vault is away, the keys that were read last are used; any other failure is told.
func TestKeysWhileTheVaultIsAway(t *testing.T) {
	vault, away := newMemoryVault(), errors.New("away")
	keyring := sign.NewKeyring(sign.KeyringOptions{Vault: vault, Freshness: 1, Away: func(err error) bool { return errors.Is(err, away) }})
	before := keysOf(t, keyring, "me")
	vault.onSecret, vault.onKeep = func() error { return away }, func() error { return away }
	if pair := keysOf(t, keyring, "me"); pair != before {
		t.Errorf("keys %+v, want those that were read: %+v", pair, before)
	}
	if _, err := keyring.Keys(t.Context(), "another"); !errors.Is(err, away) {
		t.Errorf("keys that were never read = %v, want why not", err)
	}
	broken := errors.New("broken")
	vault.onSecret, vault.onKeep = func() error { return broken }, func() error { return broken }
	if _, err := keyring.Keys(t.Context(), "me"); !errors.Is(err, broken) {
		t.Errorf("keys of a broken vault = %v, want why not", err)
	}
}

func TestKeyringIsSafeForConcurrentUse(t *testing.T) {
	keyring := sign.NewKeyring(sign.KeyringOptions{Vault: newMemoryVault(), Freshness: 1})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if _, err := keyring.Keys(t.Context(), "me"); err != nil {
					t.Error(err)
				}
				if _, err := keyring.Rotate(t.Context(), "me"); err != nil && posthaste.ErrorCode(err) != posthaste.CodeConflict {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func keysOf(t *testing.T, keyring *sign.Keyring, user string) sign.KeyPair {
	t.Helper()
	pair, err := keyring.Keys(t.Context(), user)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// step is something done with a keyring.
type step func(context.Context, *sign.Keyring) error

func callKeys(ctx context.Context, k *sign.Keyring) error {
	_, err := k.Keys(ctx, "me")
	return err
}

func callRotate(ctx context.Context, k *sign.Keyring) error {
	_, err := k.Rotate(ctx, "me")
	return err
}

func callPreset(ctx context.Context, k *sign.Keyring) error { return k.Preset(ctx, "me", somePair) }
