// Package pgtest is test support; only tests import it. It runs a PostgreSQL of the tests' own: one
// cluster for a test binary, in a temporary directory, and a database for each test. The programs
// must be installed; nothing else of the machine is touched.
//
// With POSTHASTE_TEST_DATABASE_URL, tests make their databases in that PostgreSQL instead, by a role
// that may create databases, and tests that stop or reconfigure the server are skipped.
package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

// programsVariable names the directory of the programs to use. Without it, they are the newest that
// Debian has installed.
const programsVariable = "POSTHASTE_TEST_POSTGRES"

const debianPrograms = "/usr/lib/postgresql/*/bin"

// Cluster is a running PostgreSQL.
type Cluster struct {
	directory string
	port      int
	settings  string              // further options of the server
	as        *syscall.Credential // nil: as the tests
	made      atomic.Int32        // databases
	given     *given              // nil: a server of the tests' own
	undertaker
}

// Main runs the tests of a package with a cluster in *cluster, and stops it. Call it
// as os.Exit(pgtest.Main(m, &cluster)).
func Main(m *testing.M, cluster **Cluster) int {
	c, err := Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return 1
	}
	*cluster = c
	code := m.Run()
	if err := c.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return 1
	}
	return code
}

// Start makes a cluster and starts it, or connects to the given one.
func Start() (*Cluster, error) {
	if url := os.Getenv(urlVariable); url != "" {
		return useGiven(url)
	}
	return startWith((*Cluster).initialize, (*Cluster).Launch)
}

// startWith makes a cluster in some steps.
func startWith(steps ...func(*Cluster) error) (*Cluster, error) {
	directory, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		return nil, err
	}
	c := &Cluster{directory: directory}
	for _, step := range append([]func(*Cluster) error{(*Cluster).prepare}, steps...) {
		if err := step(c); err != nil {
			return nil, errors.Join(err, c.Stop())
		}
	}
	return c, nil
}

func (c *Cluster) prepare() (err error) {
	if err := c.chooseUser(); err != nil {
		return err
	}
	if err := c.watch(c.directory, c.as); err != nil {
		return err
	}
	c.port, err = FreePorts(1)
	return err
}

func (c *Cluster) initialize() error {
	return c.run("initdb", "-D", c.data(), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
}

func (c *Cluster) data() string { return filepath.Join(c.directory, "data") }

// chooseUser finds somebody to run as: PostgreSQL refuses to run as root.
func (c *Cluster) chooseUser() error {
	if os.Getuid() != 0 {
		return nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return err
	}
	uid, uidErr := strconv.ParseUint(nobody.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(nobody.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return err
	}
	c.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(c.directory, int(uid), int(gid))
}

// Launch starts the server of a cluster that was halted, at the place it had. It does not
// sync: tests kill processes, and never the machine below them.
func (c *Cluster) Launch() error {
	options := fmt.Sprintf("-p %d -c listen_addresses=127.0.0.1 -c unix_socket_directories=%s"+
		" -c max_connections=100 -c max_prepared_transactions=50 -c fsync=off -c full_page_writes=off %s", c.port, c.directory, c.settings)
	return c.run("pg_ctl", "-D", c.data(), "-l", filepath.Join(c.directory, "log"), "-w", "-o", options, "start")
}

// Halt stops the server at once, as if its processes had been killed.
func (c *Cluster) Halt() error {
	return c.run("pg_ctl", "-D", c.data(), "-w", "-m", "immediate", "stop")
}

// Stop stops the server and removes the cluster.
func (c *Cluster) Stop() error {
	if c.given != nil {
		return c.given.drop()
	}
	return errors.Join(c.end(), os.RemoveAll(c.directory))
}

// find returns where one of the programs is.
func find(program string) (string, error) {
	directories := cmp.Or(os.Getenv(programsVariable), debianPrograms)
	found, err := filepath.Glob(filepath.Join(directories, program))
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", fmt.Errorf("there is no %s in %s: install PostgreSQL, or set %s to the directory of its programs", program, directories, programsVariable)
	}
	return slices.Max(found), nil
}

// run runs one of PostgreSQL's programs.
func (c *Cluster) run(program string, args ...string) error {
	found, err := find(program)
	if err != nil {
		return err
	}
	return c.execute(found, args...)
}

// execute runs a program. Its output goes to a file: the server keeps it open.
func (c *Cluster) execute(program string, args ...string) error {
	output, err := os.Create(filepath.Join(c.directory, filepath.Base(program)+".out"))
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	cmd := exec.Command(program, args...)
	cmd.Dir = c.directory
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(output.Name())
		return fmt.Errorf("%s: %w\n%s", program, err, text)
	}
	return nil
}

// URL returns that of a database. It has a query, to which tests may add.
func (c *Cluster) URL(database string) string {
	if c.given != nil {
		return c.given.database(database)
	}
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", c.port, database)
}

// Create makes an empty database and returns its URL. It goes with the cluster.
func (c *Cluster) Create() (url string, err error) {
	name := fmt.Sprintf("test%d", c.made.Add(1))
	if c.given != nil {
		return c.given.create(name)
	}
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return "", err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+name)
	return c.URL(name), errors.Join(err, conn.Close(ctx))
}

// Database is Create for a test.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	url, err := c.Create()
	if err != nil {
		t.Fatal(err)
	}
	return url
}
