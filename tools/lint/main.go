// Command lint checks a file by the library of the tool that reads it:
//
//	lint dockerfile FILE   by BuildKit, which builds it
//	lint goreleaser FILE   by the loader of GoReleaser, which refuses what it does not know
//
// It asks nothing of the network. `make lint-deploy` runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/opencontainers/go-digest"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "lint:", err)
		os.Exit(1)
	}
}

// run checks a file of a kind, and tells what is wrong with it.
func run(out io.Writer, args []string) error {
	if len(args) != 2 {
		return errors.New("give the kind of a file, dockerfile or goreleaser, and its name")
	}
	switch kind, file := args[0], args[1]; kind {
	case "dockerfile":
		return lintDockerfile(out, file)
	case "goreleaser":
		_, err := config.Load(file)
		return err
	default:
		return fmt.Errorf("kind %q is not dockerfile or goreleaser", kind)
	}
}

// lintDockerfile applies all rules of BuildKit's that need no base image.
func lintDockerfile(out io.Writer, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	source := llb.NewSourceMap(nil, file, "Dockerfile", text)
	source.Definition = &llb.Definition{} // it was made by no build
	found, err := dockerfile2llb.DockerfileLint(context.Background(), text, dockerfile2llb.ConvertOpt{
		SourceMap:    source,
		MetaResolver: emptyImages{},
	})
	if err != nil {
		return err
	}
	if found.Error != nil {
		return fmt.Errorf("%s: %s", file, found.Error.Message)
	}
	if err := found.PrintTo(out, nil); err != nil {
		return err
	}
	if n := len(found.Warnings); n > 0 {
		return fmt.Errorf("%s breaks %d rules", file, n)
	}
	return nil
}

// emptyImages says of every base image that it has no settings.
type emptyImages struct{}

// ResolveImageConfig implements llb.ImageMetaResolver.
func (emptyImages) ResolveImageConfig(_ context.Context, ref string, _ sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	return ref, "", []byte("{}"), nil
}
