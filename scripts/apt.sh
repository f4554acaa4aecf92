# Packages of Debian, for scripts/setup, which sources it after lib.sh; does nothing by itself.
#
# Every function asks CHECK: where it is set, it says what it would do and does nothing.
# shellcheck shell=bash

# apt_install WHY PACKAGE…
apt_install() {
    local why=$1 packages=("${@:2}")
    if [[ $CHECK ]]; then
        say "would run: apt-get install ${packages[*]} ($why)"
        return
    fi
    command -v apt-get >/dev/null || die "missing: $why. Debian's packages for it are ${packages[*]}."
    [[ $(id -u) == 0 ]] || die "missing: $why. Run as root: apt-get install ${packages[*]}"
    say "installing with apt-get: ${packages[*]} ($why)"
    apt-get update -q >&2 || say "some package lists could not be refreshed; going on with what is there"
    # Nothing of the machine's may go to make room for ours: apt-get refuses then and says what is in the way.
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends --no-remove "${packages[@]}" >&2 ||
        die "apt-get could not install ${packages[*]} (above: why)"
}

# apt_install_quietly WHY PACKAGE…: installs packages that bring services, for their programs alone.
#
# Debian starts a service when its package is installed, and at every start of the machine from then on. A machine that
# only runs our tests wants neither, so: while apt-get works, a policy-rc.d forbids to start anything (where the machine
# has a policy of its own, that stays); PostgreSQL makes no database of its own; and afterwards each service that was
# not here before is stopped and taken out of the machine's start. A service that was here before is left as it was.
# In parentheses, so that the trap is this function's alone.
apt_install_quietly() (
    policy=/usr/sbin/policy-rc.d
    no_cluster=/etc/postgresql-common/createcluster.d/leasehold-setup.conf
    new=()
    if [[ ! $CHECK && $(id -u) == 0 ]]; then
        for service in postgresql redis-server pgbouncer; do
            [[ -e /etc/init.d/$service ]] || new+=("$service")
        done
        ours=("$no_cluster")
        mkdir -p "$(dirname "$no_cluster")"
        echo 'create_main_cluster = false' >"$no_cluster"
        if [[ ! -e $policy ]]; then
            ours+=("$policy")
            # 101: the action is forbidden by policy.
            printf '#!/bin/sh\nexit 101\n' >"$policy"
            chmod 755 "$policy"
        fi
        # shellcheck disable=SC2064 # They are to be read now.
        trap "rm -f ${ours[*]@Q}" EXIT
    fi
    apt_install "$@"
    for service in "${new[@]}"; do
        [[ -e /etc/init.d/$service ]] || continue
        service "$service" stop >&2
        update-rc.d "$service" disable >&2
    done
)

# unpack_backports FOLDER PROOF PACKAGE…: unpacks packages of Debian 12's backports in FOLDER, where then PROOF exists.
#
# apt's own tools fetch and verify them, with a list of sources and a state of our own, so that the machine's stay as
# they are. Ends the subshell or script where it fails; every step says so itself, since a caller that goes on all the
# same switches bash's own check off.
unpack_backports() (
    folder=$1 proof=$2 packages=("${@:3}")
    if [[ $CHECK ]]; then
        say "would download ${packages[*]} from bookworm-backports and unpack in $folder"
        exit
    fi
    say "downloading ${packages[*]} from bookworm-backports, to be unpacked in $folder"
    mirror=$(debian_mirror) || exit 1
    mkdir -p "$CACHE" || die "cannot make $CACHE"
    work=$(mktemp -d "$folder.XXXXXX") || die "cannot make a folder in $CACHE"
    # shellcheck disable=SC2064 # $work is to be read now.
    trap "rm -rf '$work'" EXIT
    mkdir -p "$work"/{lists/partial,archives/partial,unpacked} || die "cannot make folders in $work"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror bookworm-backports main" \
        >"$work/sources.list" || die "cannot write $work/sources.list"
    apt=(
        apt-get -q
        -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work"
        -o "APT::Sandbox::User=$(id -un)"
    )
    # An update that could not read everything ends well all the same unless it is told not to.
    "${apt[@]}" -o APT::Update::Error-Mode=any update >&2 || die "cannot read $mirror bookworm-backports (above: why)"
    (cd "$work" && "${apt[@]}" download "${packages[@]}" >&2) || die "cannot download ${packages[*]} (above: why)"
    for package in "$work"/*.deb; do
        dpkg -x "$package" "$work/unpacked" || die "cannot unpack $package"
    done
    [[ -e $work/unpacked/$proof ]] || die "${packages[*]} of bookworm-backports: no $proof any more; please report this"
    # Renamed when it is complete, so that a broken download leaves nothing that looks finished.
    rm -rf "$folder"
    mv "$work/unpacked" "$folder" || die "cannot put $folder in its place"
)

# The mirror that this machine takes Debian itself from.
debian_mirror() {
    local mirror
    # shellcheck disable=SC2016 # $(REPO_URI) is apt's to replace.
    mirror=$(apt-get indextargets --format '$(REPO_URI)' \
        'Created-By: Packages' 'Component: main' 'Release: bookworm' 'Origin: Debian' | head -n 1)
    [[ $mirror ]] || die "apt has no source for Debian 12 (bookworm main) to take the address of its backports from;" \
        "add one and run 'apt-get update'"
    echo "$mirror"
}

is_debian_12() {
    local os
    os=$(. /etc/os-release 2>/dev/null && echo "${ID:-}-${VERSION_CODENAME:-}") || true
    [[ $os == debian-bookworm ]]
}
