-- want: script
-- as: program
<?php echo "hello"; ?>
