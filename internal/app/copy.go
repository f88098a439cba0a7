package app

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"posthaste"
	"posthaste/internal/ledger"
	"posthaste/internal/store"
	"posthaste/internal/store/partition"
	"posthaste/internal/store/postgres"
)

// checkCopied returns store.ErrHalfCopied unless all that was to be copied into a store is
// there.
func checkCopied(ctx context.Context, vault store.Vault) error {
	state, err := vault.Secret(ctx, store.CopyMark)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return cmp.Or(err, store.CheckCopied(store.CopyMark, state))
}

// Place is where a server keeps everything: a directory, or the URLs of one or more databases.
type Place []string

// IsDatabase reports whether the place is a database, or several.
func (p Place) IsDatabase() bool {
	return strings.HasPrefix(p[0], "postgres://") || strings.HasPrefix(p[0], "postgresql://")
}

// check returns an error for a URL of something else, which is not shown: it may hold a
// password.
func (p Place) check() error {
	if scheme, _, isURL := strings.Cut(p[0], "://"); isURL && !p.IsDatabase() {
		return posthaste.Invalidf("scheme %.20q is not supported: a directory is accepted, or postgres://USER:PASSWORD@HOST:PORT/DATABASE", scheme)
	}
	return nil
}

// open opens a place. A database that must be there already is not changed for that.
func (p Place) open(ctx context.Context, existing bool, partitions int, logger *slog.Logger) (*ledger.Ledger, error) {
	if !p.IsDatabase() {
		s, err := openDirectory(Options{Data: p[0], Log: logger}, nil)
		if err != nil {
			return nil, err
		}
		return ledger.New(s), nil
	}
	s, err := partition.Over(postgres.OpenDatabases(ctx, p, postgres.Options{
		Existing: existing, Partitions: store.Partitions(partitions), Logger: logger,
	}))
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return ledger.New(s), nil
}

// Copied is how many items of each kind were copied.
type Copied map[store.ItemKind]int

// Total is how many items were copied.
func (c Copied) Total() (n int) {
	for _, count := range c {
		n += count
	}
	return n
}

// Each calls visit for the kinds of which something was copied.
func (c Copied) Each(visit func(kind string, count int)) {
	for kind := store.ItemSecret; kind <= store.ItemResponse; kind++ {
		if c[kind] > 0 {
			visit(kind.String(), c[kind])
		}
	}
}

// exists returns an error for a directory that is not there or has no store in it. A
// database reports it when it is opened.
func (p Place) exists() error {
	if p.IsDatabase() {
		return nil
	}
	if _, err := os.Stat(p[0]); err != nil {
		return err
	}
	return holdsStore(p[0])
}

// errNotEmpty is why nothing is copied to a place.
var errNotEmpty = errors.New("it is not empty: give a new directory, or an empty database")

// free returns errNotEmpty for a directory that has something in it, and not a store, which
// reports itself whether anything is kept there.
func (p Place) free() error {
	if p.IsDatabase() {
		return nil
	}
	found, err := os.ReadDir(p[0])
	if len(found) == 0 && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		return nil
	}
	if err == nil && holdsStore(p[0]) != nil {
		err = errNotEmpty
	}
	return err
}

// Copy copies everything that is kept at one place to another, at which nothing is kept
// yet and which is not served before all is there, and compares both afterwards. No
// server may use either. Users of a new database have that number of partitions, 0 for the default. It calls progress
// with what has been copied so far.
func Copy(ctx context.Context, from, to Place, partitions int, logger *slog.Logger, progress func(Copied)) (copied Copied, err error) {
	if err := to.check(); err != nil {
		return nil, fmt.Errorf("to: %w", err)
	}
	now := time.Now()
	source, err := openSource(ctx, now, from, logger)
	if err != nil {
		return nil, fmt.Errorf("from: %w", err)
	}
	defer func() { err = errors.Join(err, source.Close()) }()
	if err := to.free(); err != nil {
		return nil, fmt.Errorf("to: %w", err)
	}
	target, err := to.open(ctx, false, partitions, logger)
	if err != nil {
		return nil, fmt.Errorf("to: %w", err)
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if err := reserve(ctx, now, target); err != nil {
		return nil, fmt.Errorf("to: %w", err)
	}
	before, err := move(ctx, now, source, target, progress)
	if err != nil {
		return nil, err
	}
	after, err := sumOf(ctx, now, target)
	if err != nil {
		return nil, fmt.Errorf("read what was copied: %w", err)
	}
	if err := before.compare(after); err != nil {
		return nil, err
	}
	return before.counts(), target.CompareAndSwapSecret(ctx, store.CopyMark, store.CopyRunning, store.CopyDone)
}

// openSource opens a place that has something to be copied.
func openSource(ctx context.Context, now time.Time, from Place, logger *slog.Logger) (*ledger.Ledger, error) {
	if err := cmp.Or(from.check(), from.exists()); err != nil {
		return nil, err
	}
	source, err := from.open(ctx, true, 0, logger)
	if err != nil {
		return nil, err
	}
	err = checkCopied(ctx, source)
	if err == nil {
		err = checkAnything(ctx, now, source)
	}
	if err != nil {
		return nil, errors.Join(err, source.Close())
	}
	return source, nil
}

// checkAnything returns an error if nothing at all is kept in a store.
func checkAnything(ctx context.Context, now time.Time, source *ledger.Ledger) error {
	any, err := has(ctx, now, source, func(item store.Item) bool { return !isMark(item) })
	if err == nil && !any {
		err = errors.New("there is nothing to copy: it is empty")
	}
	return err
}

// has reports whether a store has an item for which a condition holds.
func has(ctx context.Context, now time.Time, s *ledger.Ledger, condition func(store.Item) bool) (bool, error) {
	err := s.Export(ctx, now, func(item store.Item) error {
		if condition(item) {
			return store.ErrStop
		}
		return nil
	})
	if errors.Is(err, store.ErrStop) {
		return true, nil
	}
	return false, err
}

// reserve marks a store, which must have nothing but secrets, as one that is copied into.
func reserve(ctx context.Context, now time.Time, target *ledger.Ledger) error {
	any, err := has(ctx, now, target, func(item store.Item) bool { return item.Kind != store.ItemSecret })
	if err != nil {
		return err
	}
	if any {
		return errNotEmpty
	}
	state, err := target.PutSecretIfAbsent(ctx, store.CopyMark, store.CopyRunning)
	if err == nil && state != store.CopyRunning {
		err = target.CompareAndSwapSecret(ctx, store.CopyMark, state, store.CopyRunning)
	}
	return err
}

// Bounds of what is imported in one commit.
const (
	itemsAtOnce = 1000
	bytesAtOnce = 4 << 20
)

// move moves everything from one store into another, and returns what it has moved.
func move(ctx context.Context, now time.Time, source, target *ledger.Ledger, progress func(Copied)) (sums, error) {
	moved := sums{}
	var items []store.Item
	size := 0
	flush := func() error {
		err := target.Import(ctx, items)
		items, size = items[:0], 0
		progress(moved.counts())
		return err
	}
	err := source.Export(ctx, now, func(item store.Item) error {
		if isMark(item) {
			return nil
		}
		item.Key, item.Value = append([]byte(nil), item.Key...), append([]byte(nil), item.Value...)
		moved.add(item)
		items = append(items, item)
		if size += len(item.Value); len(items) < itemsAtOnce && size < bytesAtOnce {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return nil, fmt.Errorf("copy: %w", err)
	}
	return moved, nil
}

func isMark(item store.Item) bool {
	return item.Kind == store.ItemSecret && string(item.Key) == store.CopyMark
}

// sumOf reads everything that a store keeps.
func sumOf(ctx context.Context, now time.Time, s *ledger.Ledger) (sums, error) {
	all := sums{}
	err := s.Export(ctx, now, func(item store.Item) error {
		if !isMark(item) {
			all.add(item)
		}
		return nil
	})
	return all, err
}

// sums show whether two stores differ: of each kind the number of items, and the sum of their
// hashes, whose order does not matter.
type sums map[store.ItemKind]sum

type sum struct {
	count  int
	hashes [4]uint64
}

func (s sums) add(item store.Item) {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(item.User), item.Key, item.Value} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		h.Write(part)
	}
	total := s[item.Kind]
	total.count++
	for i, digest := 0, h.Sum(nil); i < len(total.hashes); i++ {
		total.hashes[i] += binary.BigEndian.Uint64(digest[8*i:])
	}
	s[item.Kind] = total
}

// compare returns an error unless both are the same.
func (s sums) compare(other sums) error {
	for kind := store.ItemSecret; kind <= store.ItemResponse; kind++ {
		switch mine, theirs := s[kind], other[kind]; {
		case mine.count != theirs.count:
			return fmt.Errorf("the copy has %d %s, but the source has %d", theirs.count, kind, mine.count)
		case mine != theirs:
			return fmt.Errorf("some of the %d %s differ in the copy", mine.count, kind)
		}
	}
	return nil
}

func (s sums) counts() Copied {
	counts := Copied{}
	for kind, total := range s {
		counts[kind] = total.count
	}
	return counts
}
