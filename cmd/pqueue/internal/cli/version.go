package cli

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which version of pqueue this is, and of which commit",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			build, ok := debug.ReadBuildInfo()
			if !ok {
				return errors.New("this program was built without its version")
			}
			_, err := fmt.Fprintln(a.Out, versionOf(build))
			return err
		},
	}
}

// versionOf names the commit if the program was built in a clone. Go knows none of a version that it has got from a proxy: the tag says it.
func versionOf(build *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range build.Settings {
		settings[s.Key] = s.Value
	}
	said := "pqueue " + build.Main.Version
	if build.Main.Version == "" {
		said += "(devel)"
	}
	if commit := settings["vcs.revision"]; commit != "" {
		said += ", commit " + commit
	}
	if settings["vcs.modified"] == "true" {
		said += " with changes"
	}
	return said + ", " + build.GoVersion + " " + settings["GOOS"] + "/" + settings["GOARCH"]
}
