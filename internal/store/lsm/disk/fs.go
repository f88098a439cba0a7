// Package disk protects files: it notices when the disk has lost what it acknowledged, has failed, is
// full, or does not answer, and it copies directories. It knows no message.
package disk

import (
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// FS is the file system as the storage engine sees it. It lets the guard know
// which manifests were synced and when the disk has failed. Until the store has been
// found whole it removes nothing: what the engine takes for leftovers of a crash may be
// all there is to repair a damaged store from. It also knows which file was read last,
// which the engine's errors do not always name.
type FS struct {
	vfs.FS
	guard *guard

	mu      sync.Mutex
	trusted bool
	held    []string // files to be removed once the store is trusted
	read    string   // the file that was opened last, as long as the store is not trusted
	log     string   // the log file among them

	failedAt time.Time // when work in the background failed
}

// Read returns the file system of a directory that is only read.
func Read(fs vfs.FS, dir string, logger *slog.Logger) (*FS, error) {
	g, err := readGuard(fs, dir, logger)
	return &FS{FS: fs, guard: g}, err
}

// Open returns the file system of a directory, or ErrDamaged, wrapped, if its manifest is not what was
// synced. failed is called when the disk has failed, and must not return.
func Open(fs vfs.FS, dir string, logger *slog.Logger, failed func(error)) (*FS, error) {
	opened, err := Read(fs, dir, logger)
	if err != nil {
		return nil, err
	}
	if err := opened.CheckManifest(); err != nil {
		return nil, err
	}
	return opened, opened.guard.open(failed)
}

// CheckManifest returns ErrDamaged, wrapped, unless the current manifest begins with what was synced of
// it. It is called before the storage engine reads it.
func (fs *FS) CheckManifest() error { return fs.guard.checkManifest() }

// CheckCommits returns ErrDamaged, wrapped, unless the database, which was opened, has all commits that
// were acknowledged.
func (fs *FS) CheckCommits(found uint64) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.guard.checkCommits(found, fs.log)
}

// Synced records that a number of commits are durable. It must be called before they are acknowledged.
func (fs *FS) Synced(commits uint64) { fs.guard.synced(commits) }

// Acknowledged returns the number of commits that the guard knows to be durable.
func (fs *FS) Acknowledged() uint64 {
	fs.guard.mu.Lock()
	defer fs.guard.mu.Unlock()
	return fs.guard.commits
}

// Close leaves the guard durable.
func (fs *FS) Close() error { return fs.guard.close() }

// retryPause is how long the storage engine waits before it tries again what failed in
// the background: flushing and compacting.
const retryPause = time.Second

// BackgroundFailed is called when work in the background failed, most often because the
// disk is full. The engine will try again, at once and without end; before the store is
// open, somebody would wait for that, so the process stops.
func (fs *FS) BackgroundFailed(err error) {
	fs.mu.Lock()
	fs.failedAt = time.Now()
	trusted := fs.trusted
	fs.mu.Unlock()
	if !trusted {
		fs.guard.failed(err)
		return
	}
	fs.guard.logger.Error("store.background_failed", "error", err.Error())
}

// rest waits if work in the background failed a moment ago.
func (fs *FS) rest() {
	fs.mu.Lock()
	lately := time.Since(fs.failedAt) < retryPause
	fs.mu.Unlock()
	if lately {
		time.Sleep(retryPause)
	}
}

// Open opens a file to be read.
func (fs *FS) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	fs.mu.Lock()
	if !fs.trusted {
		fs.read = name
		if fs.isLog(name) {
			fs.log = name
		}
	}
	fs.mu.Unlock()
	return fs.FS.Open(name, options...)
}

// LastRead returns the file that was opened last before the store was trusted.
func (fs *FS) LastRead() string {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.read
}

// MkdirAll makes a directory that is for nobody else: the storage engine would let
// everybody read a backup.
func (fs *FS) MkdirAll(dir string, _ os.FileMode) error { return fs.FS.MkdirAll(dir, 0o700) }

// Create makes a file.
func (fs *FS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") {
		fs.rest()
	}
	file, err := fs.FS.Create(name, category)
	return fs.watch(name, file, err)
}

// ReuseForWrite makes a file of one that is not needed any more.
func (fs *FS) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := fs.FS.ReuseForWrite(old, name, category)
	return fs.watch(name, file, err)
}

// watch returns a file, or the error of making it, as the storage engine gets it. Files
// of a backup are not watched: they are not where the store is.
func (fs *FS) watch(name string, file vfs.File, err error) (vfs.File, error) {
	if !fs.isManifest(name) && !fs.isLog(name) {
		return file, err
	}
	if err != nil {
		return nil, fs.guard.fail("create", name, err)
	}
	vital := vitalFile{File: file, guard: fs.guard, path: name}
	if fs.isLog(name) {
		return &vital, nil
	}
	return &sealedFile{vitalFile: vital, name: fs.PathBase(name), hash: xxhash.New()}, nil
}

func (fs *FS) isLog(name string) bool {
	return fs.isHere(name) && strings.HasSuffix(name, ".log")
}

func (fs *FS) isManifest(name string) bool {
	return fs.isHere(name) && strings.HasPrefix(fs.PathBase(name), "MANIFEST-")
}

// isHere reports whether a file is in the directory of the store.
func (fs *FS) isHere(name string) bool {
	return fs.PathDir(name) == fs.PathDir(fs.guard.path())
}

// Remove removes a file, later if necessary.
func (fs *FS) Remove(name string) error {
	fs.mu.Lock()
	if !fs.trusted {
		defer fs.mu.Unlock()
		fs.held = append(fs.held, name)
		return nil
	}
	fs.mu.Unlock()
	return fs.FS.Remove(name)
}

// Trust removes what was to be removed, from now on at once. A file that stays is
// removed after the next start.
func (fs *FS) Trust() {
	fs.mu.Lock()
	held := fs.held
	fs.held, fs.trusted = nil, true
	fs.mu.Unlock()
	for _, name := range held {
		_ = fs.Remove(name)
	}
}

// Unwrap implements vfs.FS.
func (fs *FS) Unwrap() vfs.FS { return fs.FS }

// vitalFile is a log or a manifest. When one cannot be written or synced the process
// stops: the storage engine would panic, or try again.
type vitalFile struct {
	vfs.File
	guard *guard
	path  string
}

// Write appends to the file.
func (f *vitalFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, f.guard.fail("write", f.path, err)
}

// Sync makes durable what was written.
func (f *vitalFile) Sync() error { return f.guard.fail("sync", f.path, f.File.Sync()) }

// SyncData is Sync, but for the file's times.
func (f *vitalFile) SyncData() error { return f.guard.fail("sync", f.path, f.File.SyncData()) }

// SyncTo begins to sync the first bytes.
func (f *vitalFile) SyncTo(length int64) (bool, error) {
	whole, err := f.File.SyncTo(length)
	return whole, f.guard.fail("sync", f.path, err)
}

// sealedFile is a manifest that is written from its beginning to its end.
type sealedFile struct {
	vitalFile
	name string
	size int64
	hash *xxhash.Digest
}

// Write appends to the file.
func (f *sealedFile) Write(p []byte) (int, error) {
	_, _ = f.hash.Write(p) // first: Write of a vfs.File may change p
	n, err := f.vitalFile.Write(p)
	f.size += int64(n)
	return n, err
}

// Sync makes durable what was written, and the seal of it.
func (f *sealedFile) Sync() error {
	if err := f.vitalFile.Sync(); err != nil {
		return err
	}
	return f.guard.seal(manifestSeal{f.name, f.size, f.hash.Sum64()})
}
