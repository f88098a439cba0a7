package disk

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrDamaged means that something that was acknowledged is no longer in the directory. Its text names
// the file.
var ErrDamaged = errors.New("the data directory is damaged")

// GuardFile is the name of the guard's file. A directory that has lost its database still has it.
const GuardFile = "guard"

// guard records, outside of the storage engine, what the disk has acknowledged: the number of
// synced commits and the synced length of manifests. The engine treats damage at the end of its
// log or manifest as a write that a crash cut short, and drops it; opening the store compares the
// database with the guard to detect that.
//
// The guard may be older than the database, by up to guardDelay after a power failure, but never
// newer, so it causes no false alarm. Without a readable guard the store opens unchecked.
type guard struct {
	fs     vfs.FS
	dir    string
	logger *slog.Logger
	failed func(error) // called when the disk has failed; does not return

	syncing sync.Mutex // held while the file is synced without mu, and taken before it

	mu        sync.Mutex
	file      vfs.File
	commits   uint64
	manifests []manifestSeal // the newest last
	timer     *time.Timer    // syncs the file; nil when it is synced
}

// manifestSeal is the synced length of a manifest and the hash of those bytes.
type manifestSeal struct {
	name string
	size int64
	hash uint64
}

const (
	// guardDelay is how long after a commit's acknowledgement the guard may need to survive a
	// power failure. It survives a crash of the process at once.
	guardDelay = time.Second

	guardSize    = 4096 // bytes; the file never grows, so that to sync it is cheap
	mostSeals    = 16   // far more manifests than there ever are at a time
	guardHeading = "posthaste guard 1"
)

var errGuard = errors.New("it is not what was written")

// readGuard reads the guard of a directory. A missing or unreadable guard is empty.
func readGuard(fs vfs.FS, dir string, logger *slog.Logger) (*guard, error) {
	g := &guard{fs: fs, dir: dir, logger: logger}
	file, err := fs.Open(g.path())
	if errors.Is(err, os.ErrNotExist) {
		return g, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", g.path(), err)
	}
	text, err := io.ReadAll(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", g.path(), err)
	}
	if err := g.decode(text); err != nil {
		g.commits, g.manifests = 0, nil
		logger.Warn("store.guard_unreadable", "file", g.path(), "error", err.Error())
	}
	return g, nil
}

func (g *guard) path() string { return g.fs.PathJoin(g.dir, GuardFile) }

// WriteGuard writes the guard of a copy that has a number of commits.
func WriteGuard(fs vfs.FS, dir string, commits uint64) error {
	g := &guard{fs: fs, dir: dir, commits: commits}
	if err := g.open(func(error) {}); err != nil {
		return err
	}
	return g.close()
}

// open makes the guard writable.
func (g *guard) open(failed func(error)) (err error) {
	g.failed = failed
	if g.file, err = g.fs.OpenReadWrite(g.path(), vfs.WriteCategoryUnspecified); err != nil {
		return err
	}
	whole := append(g.encode(), bytes.Repeat([]byte{'\n'}, guardSize)...)[:guardSize]
	if _, err := g.file.WriteAt(whole, 0); err != nil {
		return err
	}
	if err := g.file.Sync(); err != nil {
		return err
	}
	return syncDirectory(g.fs, g.dir)
}

// encode returns the guard as text, with a hash at its end.
func (g *guard) encode() []byte {
	text := append(make([]byte, 0, 512), guardHeading+"\ncommits "...)
	text = strconv.AppendUint(text, g.commits, 10)
	for _, m := range g.manifests {
		text = append(append(text, "\nmanifest "...), m.name...)
		text = strconv.AppendInt(append(text, ' '), m.size, 10)
		text = strconv.AppendUint(append(text, ' '), m.hash, 16)
	}
	text = append(text, '\n')
	text = strconv.AppendUint(append(text, "end "...), xxhash.Sum64(text), 16)
	return append(text, '\n')
}

func (g *guard) decode(text []byte) error {
	if !bytes.HasPrefix(text, []byte(guardHeading+"\n")) {
		return errGuard
	}
	lines, read := bufio.NewScanner(bytes.NewReader(text)), 0
	for lines.Scan() {
		line := lines.Text()
		var hash uint64
		var m manifestSeal
		switch word, _, _ := strings.Cut(line, " "); word {
		case "commits":
			_, _ = fmt.Sscanf(line, "commits %d", &g.commits)
		case "manifest":
			_, _ = fmt.Sscanf(line, "manifest %s %d %x", &m.name, &m.size, &m.hash)
			g.manifests = append(g.manifests, m)
		case "end":
			if _, err := fmt.Sscanf(line, "end %x", &hash); err != nil || hash != xxhash.Sum64(text[:read]) {
				return errGuard
			}
			return nil
		}
		read += len(line) + 1
	}
	return errGuard
}

// write puts the guard into its file. g.mu is held, or nobody else has g.
func (g *guard) write() error {
	_, err := g.file.WriteAt(g.encode(), 0)
	return err
}

// synced records that this many commits are durable. It must be called before they are
// acknowledged.
func (g *guard) synced(commits uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file == nil {
		return
	}
	g.commits = commits
	if g.fail("write", g.path(), g.write()) != nil {
		return
	}
	if g.timer == nil {
		g.timer = time.AfterFunc(guardDelay, g.syncLater)
	}
}

// syncLater syncs the file without holding up those who write it meanwhile.
func (g *guard) syncLater() {
	g.syncing.Lock()
	defer g.syncing.Unlock()
	g.mu.Lock()
	file := g.file
	g.timer = nil
	g.mu.Unlock()
	if file != nil {
		_ = g.fail("sync", g.path(), file.SyncData())
	}
}

// fail stops the process if a file operation failed. It returns the error for callers that are
// still running.
func (g *guard) fail(doing, path string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s %s: %w", doing, path, err)
	g.failed(err)
	return err
}

// seal records that a manifest was synced, durably.
func (g *guard) seal(m manifestSeal) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file == nil {
		return nil
	}
	g.manifests = slices.DeleteFunc(g.manifests, func(other manifestSeal) bool { return other.name == m.name })
	g.manifests = append(g.manifests, m)
	g.manifests = g.manifests[max(0, len(g.manifests)-mostSeals):]
	return g.fail("write", g.path(), errors.Join(g.write(), g.file.SyncData()))
}

// close leaves the guard durable.
func (g *guard) close() error {
	g.syncing.Lock()
	defer g.syncing.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file == nil {
		return nil
	}
	if g.timer != nil {
		g.timer.Stop()
	}
	err := errors.Join(g.file.SyncData(), g.file.Close())
	g.file = nil
	return err
}

// checkManifest returns ErrDamaged unless the current manifest begins with what was
// synced of it. It is called before the storage engine reads it.
func (g *guard) checkManifest() error {
	current, err := pebble.Peek(g.dir, g.fs)
	if err != nil {
		return err
	}
	if !current.Exists {
		if g.commits > 0 {
			return fmt.Errorf("%w: there is no database, and %d commits were acknowledged: is a marker.manifest file missing?", ErrDamaged, g.commits)
		}
		return nil
	}
	name := g.fs.PathBase(current.ManifestFilename)
	for _, m := range g.manifests {
		if m.name == name {
			return g.checkSeal(current.ManifestFilename, m)
		}
	}
	return nil
}

func (g *guard) checkSeal(path string, m manifestSeal) error {
	file, err := g.fs.Open(path)
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	hash := xxhash.New()
	n, err := io.CopyN(hash, file, m.size)
	if errors.Is(err, io.EOF) {
		err = nil // see n
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if n < m.size {
		return fmt.Errorf("%w: %s has %d bytes, of which %d had been synced", ErrDamaged, path, n, m.size)
	}
	if hash.Sum64() != m.hash {
		return fmt.Errorf("%w: the first %d bytes of %s are not those that were written", ErrDamaged, m.size, path)
	}
	return nil
}

// checkCommits returns ErrDamaged unless the database, which was opened, has all
// commits that were acknowledged. The log file is the one that was read to its end.
func (g *guard) checkCommits(found uint64, log string) error {
	if found >= g.commits {
		return nil
	}
	if log == "" {
		log = "*.log, which is missing"
	}
	return fmt.Errorf("%w: of %d commits that were acknowledged %d can be read, and the others should be in %s. "+
		"Restore a backup, or remove the file %s to go on without them", ErrDamaged, g.commits, found, log, g.path())
}
