package lsm

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"posthaste/internal/store/lsm/disk"
)

// Backup writes a copy of the store into a directory, which must not be there or be
// empty, while the store is used. All that was acknowledged before the call is in it.
// Tables are linked where the file system can, so that the copy takes little time and
// space at first; to survive the disk, it has to be brought elsewhere.
func (s *Store) Backup(ctx context.Context, to string) error {
	release, err := s.hold()
	if err != nil {
		return err
	}
	defer release()
	if err := disk.RemoveEmpty(s.fs.FS, to); err != nil {
		return err
	}
	if err := s.Ping(ctx); err != nil { // what nobody waits for is to be in it too
		return err
	}
	acknowledged := s.fs.Acknowledged()
	if err := s.db.Checkpoint(to, pebble.WithFlushedWAL()); err != nil {
		return fmt.Errorf("back up to %s: %w", to, err)
	}
	return disk.WriteGuard(s.fs.FS, to, acknowledged)
}

// Restore copies a backup to a directory, which must not be there or be empty, and
// checks the copy. It keeps one that is whole.
func Restore(from, to string, options Options) (report Report, err error) {
	options = options.withDefaults()
	if current, err := pebble.Peek(from, options.FS); err != nil {
		return Report{}, fmt.Errorf("read the backup: %w", err)
	} else if !current.Exists {
		return Report{}, fmt.Errorf("%s is not a backup: there is no database in it", from)
	}
	err = disk.Restore(options.FS, from, to, func(copied string) (whole bool, err error) {
		report, err = Check(copied, options)
		return len(report.Problems) == 0, err
	})
	return report, err
}
