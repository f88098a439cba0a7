package e2e

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// binaryVariable names the environment variable that holds the path of a
// program to be tested in place of one built from this tree.
const binaryVariable = "POSTHASTE_E2E_BINARY"

// patience is how long the tests wait for something that has to happen. A wait
// that makes progress begins anew, so only a server that stands still uses it up.
const patience = 2 * time.Minute

var (
	kills = flag.Int("kills", 15, "how often the kill test kills its server")
	seed  = flag.Uint64("seed", 0, "seed of the random choices; 0 takes a new one, which is logged")
)

// binary is the path of the program under test.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	runTogether()
	os.Exit(runAll(m))
}

// together is how many tests run at the same time: most wait for the clock.
const together = 4

// runTogether lets as many tests run at the same time, unless -parallel says how many.
func runTogether() {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(together)) // it is a number
	}
}

// runAll provides the program, runs the tests and returns the exit code.
func runAll(m *testing.M) int {
	directory, err := os.MkdirTemp("", "posthaste-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(directory) }()
	binary, err = provideBinary(directory)
	if err = errors.Join(err, checkBackend()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	for _, fault := range undescribed.all {
		fmt.Fprintln(os.Stderr, fault)
		code = 1
	}
	if err := shared.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// provideBinary returns the path of the program, which it builds in directory
// unless the environment names one.
func provideBinary(directory string) (string, error) {
	if given := os.Getenv(binaryVariable); given != "" {
		return filepath.Abs(given)
	}
	path := filepath.Join(directory, "posthaste")
	output, err := exec.Command("go", "build", "-o", path, "posthaste/cmd/posthaste").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, output)
	}
	return path, nil
}

// newRandom returns the source of a test's random choices and logs its seed.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	chosen := *seed
	if chosen == 0 {
		chosen = rand.Uint64()
	}
	t.Logf("repeat this run's choices with -seed=%d", chosen)
	return rand.New(rand.NewPCG(chosen, chosen))
}

// bareEnvironment returns the environment without the settings of servers and
// SDKs, which would otherwise leak from the shell into a test.
func bareEnvironment() []string {
	var bare []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "POSTHASTE_") && !strings.HasPrefix(variable, "QSTASH_") {
			bare = append(bare, variable)
		}
	}
	return append(bare, "POSTHASTE_SHUTDOWN_LEAD=0s") // no load balancer has to notice that servers end
}
