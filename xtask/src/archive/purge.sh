# Removes the package, and fails if one of its files is not removed.
set -e
files=$(dpkg --listfiles sandbox)
dpkg --log /dev/null --purge sandbox
printf '%s\n' "$files" | while IFS= read -r file; do
    [ -d "$file" ] || [ ! -e "$file" ] || { echo "left: $file"; exit 1; }
done
for folder in /usr/libexec/sandbox /usr/share/doc/sandbox; do
    [ ! -e "$folder" ] || { echo "left: $folder"; exit 1; }
done
! command -v sandbox
