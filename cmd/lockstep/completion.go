package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const completionAbout = `Prints what a shell needs to complete the words of lockstep: its commands, their words and their flags.

  lockstep completion bash     source <(lockstep completion bash)
  lockstep completion zsh      lockstep completion zsh > "${fpath[1]}/_lockstep"
  lockstep completion fish     lockstep completion fish > ~/.config/fish/completions/lockstep.fish`

// completable is a command with what may follow it.
type completable struct {
	name, summary string
	words, flags  []string
}

func (c completable) all() string { return strings.Join(slices.Concat(c.words, c.flags), " ") }

func runCompletion(ctx context.Context, args []string, std streams) error {
	flags := newFlags("completion", completionAbout, std)
	shell, err := parseAnywhere(flags, args)
	if err != nil {
		return err
	}
	scripts := map[string]func([]completable) string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}
	if len(shell) != 1 || scripts[shell[0]] == nil {
		flags.Usage()
		return errUsage
	}
	_, err = fmt.Fprint(std.out, scripts[shell[0]](completables(ctx)))
	return err
}

var (
	helpFlag = regexp.MustCompile(`(?m)^  (-[\w-]+)`)
	helpWord = regexp.MustCompile(`(?m)^  lockstep (\w+) ([a-z]\w*(?:\|\w+)*(?: \| \w+)*)`)
)

// completables asks each command for its help, which lists its words and flags.
func completables(ctx context.Context) (list []completable) {
	for _, c := range commands() {
		var help bytes.Buffer
		_ = c.run(ctx, []string{"-h"}, streams{in: strings.NewReader(""), out: &help, err: &help}) // always that help was asked for
		found := completable{name: c.name, summary: c.summary}
		for _, m := range helpFlag.FindAllStringSubmatch(help.String(), -1) {
			found.flags = append(found.flags, m[1])
		}
		for _, m := range helpWord.FindAllStringSubmatch(help.String(), -1) {
			for word := range strings.SplitSeq(m[2], "|") {
				if word = strings.TrimSpace(word); m[1] == c.name && !slices.Contains(found.words, word) {
					found.words = append(found.words, word)
				}
			}
		}
		list = append(list, found)
	}
	return list
}

func bashScript(list []completable) string {
	var b strings.Builder
	b.WriteString("# Completion of lockstep for bash.\n_lockstep() {\n\tlocal words=\n\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n")
	fmt.Fprintf(&b, "\t\twords=%q\n\telse\n\t\tcase ${COMP_WORDS[1]} in\n", names(list))
	for _, c := range list {
		fmt.Fprintf(&b, "\t\t%s) words=%q ;;\n", c.name, c.all())
	}
	b.WriteString("\t\tesac\n\tfi\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete -o default -F _lockstep lockstep\n")
	return b.String()
}

func names(list []completable) string {
	var all []string
	for _, c := range list {
		all = append(all, c.name)
	}
	return strings.Join(all, " ")
}

func zshScript(list []completable) string {
	var b strings.Builder
	b.WriteString("#compdef lockstep\n# Completion of lockstep for zsh.\n_lockstep() {\n\tif (( CURRENT == 2 )); then\n\t\tlocal -a commands=(\n")
	for _, c := range list {
		fmt.Fprintf(&b, "\t\t\t%s\n", quoted(c.name+":"+c.summary))
	}
	b.WriteString("\t\t)\n\t\t_describe command commands\n\t\treturn\n\tfi\n\tcase ${words[2]} in\n")
	for _, c := range list {
		fmt.Fprintf(&b, "\t%s) compadd -- %s ;;\n", c.name, c.all())
	}
	b.WriteString("\tesac\n\t_files\n}\nif [ \"$funcstack[1]\" = _lockstep ]; then _lockstep \"$@\"; else compdef _lockstep lockstep; fi\n")
	return b.String()
}

func fishScript(list []completable) string {
	var b strings.Builder
	b.WriteString("# Completion of lockstep for fish.\n")
	for _, c := range list {
		fmt.Fprintf(&b, "complete -c lockstep -n __fish_use_subcommand -f -a %s -d %s\n", c.name, quoted(c.summary))
		for _, word := range c.words {
			fmt.Fprintf(&b, "complete -c lockstep -n '__fish_seen_subcommand_from %s' -a %s\n", c.name, word)
		}
		for _, flag := range c.flags {
			fmt.Fprintf(&b, "complete -c lockstep -n '__fish_seen_subcommand_from %s' -o %s\n", c.name, strings.TrimPrefix(flag, "-"))
		}
	}
	return b.String()
}

// quoted is a word in single quotes, for a shell.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }
